package conformance

import (
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// A Person is somebody of the transcripts.
type Person struct {
	Name, Namespace string
	Roles           []string
}

// People returns the people of the transcripts. The names are the subjects that records show.
func People() []Person {
	const ns = "conformance"
	return []Person{
		{"asked", ns, []string{"caller"}},    // whose calls need an answer
		{"free", ns, []string{"caller"}},     // whose calls need none
		{"stranger", ns, []string{"caller"}}, // sees nothing of the others' calls
		{"approver", ns, []string{"approver"}},
		{"second", ns, []string{"approver"}},
		{"operator", ns, []string{"operator", "viewer", "admin"}},
		{"outsider", "conformance-other", []string{"caller", "approver", "operator", "viewer"}},
	}
}

//go:embed configuration/toold.yaml
var daemonFile string

//go:embed configuration/rules.yaml
var rulesFile string

// The names of the files of a [Configuration].
const (
	DaemonFile = "toold.yaml"
	RulesFile  = "rules.yaml"
	TokensFile = "tokens.json"
)

// Configuration returns the files with which a daemon passes, by name, with new tokens. rules is where the daemon will find
// the file of rules. The file of tokens is secret, for the player only.
func Configuration(rules string) (map[string][]byte, error) {
	secrets, lines := map[string]string{}, []string{}
	for _, p := range People() {
		b := make([]byte, 32)
		_, _ = rand.Read(b) // never fails
		secrets[p.Name] = base64.RawURLEncoding.EncodeToString(b)
		sum := sha256.Sum256([]byte(secrets[p.Name]))
		lines = append(lines, fmt.Sprintf("    - {name: %s, namespace: %s, roles: [%s], hash: \"sha256:%s\"}",
			p.Name, p.Namespace, strings.Join(p.Roles, ", "), hex.EncodeToString(sum[:])))
	}
	tokens, err := json.MarshalIndent(secrets, "", "  ")
	if err != nil {
		return nil, err
	}
	place, err := json.Marshal(rules) // is YAML, too
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		DaemonFile: []byte(strings.NewReplacer("{{rules}}", string(place), "{{tokens}}", strings.Join(lines, "\n")).Replace(daemonFile)),
		RulesFile:  []byte(rulesFile),
		TokensFile: append(tokens, '\n'),
	}, nil
}
