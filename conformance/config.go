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

// A Person is a principal of the transcripts.
type Person struct {
	Name, Namespace string
	Roles           []string
}

// People returns the principals of the transcripts. Records show the names as subjects.
func People() []Person {
	const ns = "conformance"
	return []Person{
		{"asked", ns, []string{"caller"}},    // its calls need an approval
		{"free", ns, []string{"caller"}},     // its calls need no approval
		{"stranger", ns, []string{"caller"}}, // cannot see the calls of the others
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

// The file names of a [Configuration].
const (
	DaemonFile = "toold.yaml"
	RulesFile  = "rules.yaml"
	TokensFile = "tokens.json"
)

// Configuration returns, by file name, the configuration files and new tokens with which a daemon passes the transcripts. rules is the path
// at which the daemon will find the rules file. TokensFile is secret: only the program that plays the transcripts needs it.
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
	encoded, err := json.Marshal(rules) // JSON text is also YAML
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		DaemonFile: []byte(strings.NewReplacer("{{rules}}", string(encoded), "{{tokens}}", strings.Join(lines, "\n")).Replace(daemonFile)),
		RulesFile:  []byte(rulesFile),
		TokensFile: append(tokens, '\n'),
	}, nil
}
