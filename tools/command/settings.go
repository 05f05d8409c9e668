package command

// Settings contain the directory of the manifests.
type Settings struct {
	Directory string `yaml:"directory" help:"directory of manifests, which make programs tools; empty is none" see:"tools/command.md"`
}
