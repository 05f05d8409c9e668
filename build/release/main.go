// Command release makes everything that a release of toold consists of:
//
//	release all -root DIRECTORY -version v0.1.0 -to DIRECTORY
//	release proxy -root DIRECTORY -version v0.1.0 -to PROXY
//	release lock -root DIRECTORY
//
// all writes archives of static binaries, Debian packages, an OCI image, the packages of the SDKs, a module proxy, SBOMs and checksums. The
// same commit and version give the same bytes.
//
// proxy writes only the module proxy. The go command then gets the module from it:
//
//	GOPROXY="file://PROXY,$(go env GOPROXY)" GONOSUMDB=github.com/toold-dev/toold go get github.com/toold-dev/toold@v0.1.0
//
// lock writes image.lock, which names the Debian packages of the image. docs/how-to/release.md says how a release is made.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: release all|proxy|lock [flags]")
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	root := flags.String("root", ".", "directory of the module")
	version := flags.String("version", "", "semantic version, such as v0.1.0; required")
	to := flags.String("to", "", "directory for the files; required")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "lock" {
		return writeLock(filepath.Join(*root, lockFile))
	}
	if semver.Canonical(*version) != *version || *to == "" {
		return fmt.Errorf("-version %q, -to %q: want a version such as v0.1.0 and a directory", *version, *to)
	}
	switch args[0] {
	case "all":
		return releaseAll(*root, *version, *to)
	case "proxy":
		return writeProxy(*root, *version, *to)
	default:
		return fmt.Errorf("unknown command %q, want all, proxy or lock", args[0])
	}
}

// A release is one run of the program. All files get the time of the commit.
type release struct {
	root, dir string // the module, the directory for the files
	version   string // such as 0.1.0
	tag       string // such as v0.1.0
	commit    string
	made      time.Time
}

// architectures are the values of GOARCH that are released. Debian and OCI use the same names.
var architectures = []string{"amd64", "arm64"}

func releaseAll(root, tag, to string) error {
	r, err := newRelease(root, tag, to)
	if err != nil {
		return err
	}
	if err := r.checkNotes(); err != nil {
		return err
	}
	if err := writeProxy(r.root, r.tag, filepath.Join(r.dir, "proxy")); err != nil {
		return err
	}
	if err := r.packSDKs(); err != nil {
		return err
	}
	if err := r.programs(); err != nil {
		return err
	}
	return writeSums(r.dir)
}

// suffixes matches the pre-releases that all kinds of packages can have. Python accepts no others.
var suffixes = regexp.MustCompile(`^(-(alpha|beta|rc)\.[0-9]+)?$`)

func newRelease(root, tag, to string) (*release, error) {
	if !suffixes.MatchString(semver.Prerelease(tag)) {
		return nil, fmt.Errorf("version %s: the Python package cannot have it; want no suffix or one such as -rc.1, -beta.1 or -alpha.1", tag)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if to, err = filepath.Abs(to); err != nil {
		return nil, err
	}
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty; remove it, because old files would get into the checksums", to)
	}
	made, err := commitTime(root)
	if err != nil {
		return nil, err
	}
	commit, err := git(root, "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	return &release{root: root, dir: to, version: strings.TrimPrefix(tag, "v"), tag: tag, commit: strings.TrimSpace(commit), made: made}, os.MkdirAll(to, 0o755)
}

// checkNotes refuses a final version that CHANGELOG.md does not describe, or whose protos are not committed as an image. Later changes of
// the protos are compared with this image.
func (r *release) checkNotes() error {
	if semver.Prerelease(r.tag) != "" {
		return nil
	}
	notes, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if !strings.Contains("\n"+string(notes), "\n## "+r.version+"\n") {
		return fmt.Errorf("CHANGELOG.md has no section %q", "## "+r.version)
	}
	if _, err := os.Stat(filepath.Join(r.root, "proto", "releases", r.version+".binpb")); err != nil {
		return fmt.Errorf("%w; write it with: make proto-image VERSION=%s", err, r.tag)
	}
	return nil
}

// packSDKs writes the wheel, the source distribution and the npm packages.
func (r *release) packSDKs() error {
	for _, script := range []string{"sdk/python/build.sh", "sdk/typescript/pack.sh", "sdk/react/pack.sh"} {
		if err := r.command(filepath.Join(r.root, script), r.dir).Run(); err != nil {
			return fmt.Errorf("%s: %w", script, err)
		}
	}
	return nil
}

// programs writes all files that contain the binaries.
func (r *release) programs() error {
	work, err := os.MkdirTemp("", "toold-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	pages, err := r.commandLine(work)
	if err != nil {
		return err
	}
	modules, err := r.build(work)
	if err != nil {
		return err
	}
	parts, err := r.components(modules)
	if err != nil {
		return err
	}
	copyright, err := r.copyright(parts)
	if err != nil {
		return err
	}
	var programs []program
	for _, arch := range architectures {
		tree := append(binaries(work, arch), pages...)
		tree = append(tree, entry{name: "share/doc/toold/copyright", data: copyright})
		if err := r.archive(arch, tree); err != nil {
			return err
		}
		if err := r.deb(arch, tree); err != nil {
			return err
		}
		programs = append(programs, programsOf(work, arch)...)
	}
	if err := r.image(work); err != nil {
		return err
	}
	return r.writeProgramSBOM(programs, parts)
}

// command returns a command that runs in the module and gets the version and the time of the release.
func (r *release) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "VERSION="+r.version, "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.made.Unix(), 10), "TZ=UTC", "LC_ALL=C")
	return cmd
}

func commitTime(root string) (time.Time, error) {
	at, err := git(root, "log", "-1", "--format=%cI")
	if err != nil {
		return time.Time{}, err
	}
	made, err := time.Parse(time.RFC3339, strings.TrimSpace(at))
	return made.UTC(), err
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}
