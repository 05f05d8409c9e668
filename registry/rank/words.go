package rank

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// stems yields the stems of the words of a text, without common words. It splits create_issue and createIssue.
func stems(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		runes := []rune(text)
		from := 0
		for i := 0; i <= len(runes); i++ {
			if i < len(runes) && isWord(runes[i]) && (i == from || !boundary(runes, i)) {
				continue
			}
			if word := strings.ToLower(string(runes[from:i])); word != "" && !common[word] && !yield(stem(word)) {
				return
			}
			from = i
			if i < len(runes) && !isWord(runes[i]) {
				from++
			}
		}
	}
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// boundary reports whether a new word begins at index i: before a capital letter after a small one, and before the last capital of HTTPServer.
func boundary(runes []rune, i int) bool {
	before, at := runes[i-1], runes[i]
	return unicode.IsUpper(at) && (unicode.IsLower(before) || i+1 < len(runes) && unicode.IsUpper(before) && unicode.IsLower(runes[i+1]))
}

// queryStems returns the first distinct stems of a query, in their order.
func queryStems(query string) (words []string) {
	for word := range stems(query) {
		if len(words) == maxQuery {
			break
		}
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// common has the usual stop words of English, and the forms of the verb "use".
var common = wordSet(`
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its itself they them their
theirs themselves what which who whom this that these those am is are was were be been being have has had having do does did doing a an the
and but if or because as until while of at by for with about against between into through during before after above below to from up down in
out on off over under again further then once here there when where why how any both each few more most other some such no nor not only own
same so than too very s t can will just should now would use used using via`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// stem removes the usual endings of English words. Words of other languages mostly stay as they are.
func stem(word string) string {
	for _, e := range endings {
		if base, ok := strings.CutSuffix(word, e.ending); ok && len(base) >= e.least {
			return trim(base + e.instead)
		}
	}
	return trim(word)
}

var endings = []struct {
	ending, instead string
	least           int
}{
	{"ies", "i", 2}, {"sses", "ss", 1}, {"shes", "sh", 1}, {"ches", "ch", 1}, {"xes", "x", 1}, {"ss", "ss", 1}, {"us", "us", 1}, {"s", "", 2},
}

// trim removes the endings of verbs and a doubled final consonant, and replaces a final y by i.
func trim(word string) string {
	for _, ending := range []string{"ing", "ed", "ions", "ion", "e", "ment"} {
		if base, ok := strings.CutSuffix(word, ending); ok && len(base) >= 3 {
			word = base
			break
		}
	}
	if n := len(word); n > 3 && word[n-1] == word[n-2] && !strings.ContainsRune("lsz", rune(word[n-1])) {
		word = word[:n-1]
	}
	if base, ok := strings.CutSuffix(word, "y"); ok && len(base) >= 2 {
		return base + "i" // copy becomes copi, like copies and copied
	}
	return word
}

// parameterTexts returns the names, descriptions and enum texts of the properties of a schema, in a fixed order.
func parameterTexts(schema json.RawMessage) (texts []string) {
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return nil
	}
	var walk func(v any)
	walk = func(v any) {
		o, ok := v.(map[string]any)
		if !ok {
			return
		}
		if text, ok := o["description"].(string); ok {
			texts = append(texts, text)
		}
		values, _ := o["enum"].([]any)
		for _, v := range values {
			if text, ok := v.(string); ok {
				texts = append(texts, text)
			}
		}
		if properties, ok := o["properties"].(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				texts = append(texts, name)
				walk(properties[name])
			}
		}
		walk(o["items"])
	}
	walk(root)
	return texts
}
