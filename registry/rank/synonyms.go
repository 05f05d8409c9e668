package rank

import "strings"

// groups has words that people use for the same idea when they talk about tools, one group on each line. A word of a query also finds the
// other words of its group, which count less.
const groups = `
create add new make insert append generate
delete remove drop erase clear destroy purge forget discard
update change edit modify patch alter adjust replace set
get read show retrieve fetch view display load see
list all every enumerate
search find look lookup query locate filter
send post push publish submit deliver
tell notify inform message
cancel stop end abort terminate
start begin launch run execute trigger
copy duplicate clone fork
move rename relocate transfer
mail email gmail inbox
comment reply answer respond note feedback
issue bug ticket defect
pr pull
repo repository
task todo
event meeting appointment
schedule calendar plan book
file document
folder directory
image picture photo screenshot
record row entry item
field column property attribute
sheet spreadsheet excel workbook
database db
user person people member profile
customer client contact
organization organisation company team
history log commit
error failure exception crash
alert alarm monitor warning
metric graph statistics measurement
coupon discount promo voucher
location place address coordinates position
route directions drive path
available free busy availability
website page site url web
browser tab window
kubernetes k8s cluster
deploy deployment release rollout
status state health
undo rollback revert restore
mute silence snooze pause
child sub nested subtask
mobile phone device
upload attach attachment
download save export
summary overview report
tag label category
approve review accept
schema structure
execute command shell
container pod
group aggregate
join link connect associate relation
remember memory store
permission access policy role
`

// synonyms has the other words of a word's groups. All are stems.
var synonyms = groupsByStem()

func groupsByStem() map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(groups) {
		var group []string
		for _, word := range strings.Fields(line) {
			group = append(group, stem(word))
		}
		for _, word := range group {
			for _, other := range group {
				if other != word {
					all[word] = append(all[word], other)
				}
			}
		}
	}
	return all
}
