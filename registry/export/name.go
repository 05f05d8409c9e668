package export

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// A nameRule says which tool names a provider accepts. All providers accept ASCII letters, digits, - and _.
type nameRule struct {
	more   string // other allowed characters
	most   int
	letter bool // The name must start with a letter or _.
}

func (r nameRule) fits(name string) bool {
	return name != "" && len(name) <= r.most && r.clean(name) == name
}

// clean replaces each character that the provider refuses by _.
func (r nameRule) clean(name string) string {
	clean := strings.Map(func(c rune) rune {
		if isLetter(c) || '0' <= c && c <= '9' || c == '_' || c == '-' || strings.ContainsRune(r.more, c) {
			return c
		}
		return '_'
	}, name)
	if r.letter && clean != "" && clean[0] != '_' && !isLetter(rune(clean[0])) {
		clean = "_" + clean
	}
	return clean
}

func isLetter(c rune) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// names gives each id a unique name that the provider accepts. A valid id keeps its name. An invalid id is shortened and gets as many
// digits of its SHA-256 as it needs to be unique. The name of a tool therefore depends on other tools only when two shortened names
// collide.
func (r nameRule) names(ids []string) map[string]string {
	names := make(map[string]string, len(ids))
	taken := make(map[string]bool, len(ids))
	var others []string
	for _, id := range ids {
		if r.fits(id) {
			names[id], taken[id] = id, true
		} else {
			others = append(others, id)
		}
	}
	slices.Sort(others)
	for _, id := range slices.Compact(others) {
		names[id] = r.cut(id, taken)
		taken[names[id]] = true
	}
	return names
}

func (r nameRule) cut(id string, taken map[string]bool) string {
	clean := r.clean(id)
	for sum := sha256.Sum256([]byte(id)); ; sum = sha256.Sum256(sum[:]) { // A second round is needed only when an attacker created ids that collide.
		digest := hex.EncodeToString(sum[:])
		for digits := 8; digits < 32; digits++ {
			if name := clean[:min(len(clean), r.most-1-digits)] + "_" + digest[:digits]; !taken[name] {
				return name
			}
		}
	}
}
