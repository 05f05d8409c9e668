package command

// Settings contain the directory of the manifests.
type Settings struct {
	Directory string `yaml:"directory" help:"directory of manifests, each of which makes a program a tool; if empty, there are no such tools" see:"tools/command.md"`
}
