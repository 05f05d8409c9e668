package shell

import "strings"

// destructive contains commands that delete data permanently, stop processes, or change the machine. The value is the reason.
var destructive = map[string]string{
	"rm": "deletes", "rmdir": "deletes", "unlink": "deletes", "shred": "deletes", "srm": "deletes", "wipe": "deletes", "truncate": "truncates files",
	"dd": "writes raw data", "mkfs": "makes a file system", "mke2fs": "makes a file system", "mkswap": "makes a swap area",
	"fdisk": "changes partitions", "sfdisk": "changes partitions", "cfdisk": "changes partitions", "gdisk": "changes partitions",
	"sgdisk": "changes partitions", "parted": "changes partitions", "wipefs": "erases a file system", "blkdiscard": "erases a device",
	"hdparm": "changes a device", "cryptsetup": "changes a device", "losetup": "changes a device", "lvremove": "deletes", "vgremove": "deletes",
	"zpool": "changes file systems", "zfs": "changes file systems", "mount": "changes file systems", "umount": "changes file systems",
	"swapoff": "changes the machine", "swapon": "changes the machine",
	"kill": "stops processes", "pkill": "stops processes", "killall": "stops processes", "xkill": "stops processes", "skill": "stops processes",
	"shutdown": "stops the machine", "reboot": "stops the machine", "halt": "stops the machine", "poweroff": "stops the machine",
	"init": "changes the machine", "telinit": "changes the machine", "service": "changes services", "rc-service": "changes services",
	"useradd": "changes users", "userdel": "changes users", "usermod": "changes users", "adduser": "changes users", "deluser": "changes users",
	"groupadd": "changes users", "groupdel": "changes users", "passwd": "changes users", "chpasswd": "changes users", "visudo": "changes users",
	"iptables": "changes the network", "ip6tables": "changes the network", "nft": "changes the network", "ufw": "changes the network",
	"ifconfig": "changes the network", "route": "changes the network", "sysctl": "changes the kernel", "modprobe": "changes the kernel",
	"insmod": "changes the kernel", "rmmod": "changes the kernel", "setenforce": "changes the kernel", "chattr": "changes the file system",
	"setcap": "changes permissions", "dropdb": "deletes", "dropuser": "deletes", "logrotate": "deletes", "tmpreaper": "deletes",
	"hostnamectl": "changes the machine", "timedatectl": "changes the machine", "update-alternatives": "changes the machine",
	"ldconfig": "changes the machine", "git-filter-repo": "rewrites history", "bfg": "rewrites history",
}

// networking commands connect to other machines.
var networking = set("curl wget http https xh aria2c axel ssh scp sftp ftp lftp tftp nc ncat netcat socat telnet rlogin rsh dig drill nslookup host ping ping6 " +
	"traceroute tracepath mtr whois nmap masscan arp-scan svn hg bzr fossil npx bunx uvx pnpx mail mailx sendmail mutt swaks openssl s3cmd rclone " +
	"restic borg ssh-copy-id ssh-keyscan wscat websocat grpcurl mosh autossh tcpdump ngrok cloudflared psql mysql mariadb redis-cli mongosh mongo " +
	"sqlcmd vault consul nomad ansible ansible-playbook fly flyctl vercel netlify heroku firebase wrangler playwright")

// writers are commands that change the files in their arguments.
var writers = set("cp mv ln install touch mkdir mkfifo mknod chmod chown chgrp setfacl patch tar unzip gunzip gzip bzip2 xz zstd zip split csplit " +
	"rename mktemp cpio ed ex vi vim nano sponge")

// versioned are commands that only print their version when --version is their sole argument. Some commands are not in the list, because
// they do more. yarn, pnpm, rustc, cargo and go start or download the version that a file of the project names. terraform contacts a
// server.
var versioned = set("bash sh git make cmake ninja gcc g++ cc clang clang++ ld node npm npx bun deno python python2 python3 pip pip3 uv " +
	"java javac ruby gem perl php lua docker kubectl helm curl wget jq sqlite3 psql mysql redis-cli openssl ssh tar gzip zip")

// asksVersion reports whether a command only prints its version. The word "version" without dashes does not count, because most commands
// take it for a file or a host.
func asksVersion(name string, args []word) bool {
	if len(args) != 1 {
		return false
	}
	switch name + " " + args[0].value {
	case "python -V", "python3 -V", "curl -V", "wget -V", "ssh -V", "gzip -V", "java -version", "sqlite3 -version", "git version":
		return args[0].literal
	}
	return versioned[name] && args[0].is("--version")
}

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}
