package command

// Settings configure where the manifests are.
type Settings struct {
	Directory string `yaml:"directory" help:"directory of manifests, which make programs tools; empty is none" see:"tools/command.md"`
}
