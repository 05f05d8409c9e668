// Package rank orders tools by how well they match a query of a model or a client.
//
// The order is that of BM25 over the words of a tool's id, names, description and parameters. All statistics are those of the compared
// tools, so tools that a caller may not see do not influence the caller's results. The same tools and the same query give the same order.
package rank

import (
	"cmp"
	"math"
	"slices"

	"github.com/toold-dev/toold/tool"
)

// The fields of a tool.
const (
	inName = iota
	inDescription
	inParameters
	fields
)

// In a wide range of these constants, TestRealQueries finds nearly the same number of tools (within two). The values are from the middle of
// this range.
const (
	saturation = 2.0 // BM25's k1: how many occurrences count fully
	lengthNorm = 0.3 // BM25's b: how much the length of a text reduces the weight of its words
	alike      = 0.7 // weight of a synonym of a query's word
	maxWords   = 300 // words of a field; the limit bounds the memory, and the advantage of a stuffed text
	maxQuery   = 32  // different words of a query; the limit bounds the time
)

var weights = [fields]float64{inName: 5, inDescription: 1, inParameters: 0.8}

// A Document has the words of one tool. It never changes.
type Document struct {
	tool    *tool.Descriptor
	words   map[string][fields]float64 // number of occurrences by stem
	lengths [fields]float64            // number of words
}

// NewDocument reads the words of a tool. The caller must not change the descriptor afterwards.
func NewDocument(d *tool.Descriptor) *Document {
	doc := &Document{tool: d, words: map[string][fields]float64{}}
	doc.add(inName, d.ID, d.DisplayName, d.Category)
	doc.add(inName, d.Aliases...)
	doc.add(inDescription, d.Description)
	doc.add(inParameters, parameterTexts(d.Parameters)...)
	return doc
}

func (doc *Document) add(field int, texts ...string) {
	for _, text := range texts {
		for word := range stems(text) {
			if doc.lengths[field] == maxWords {
				return
			}
			n := doc.words[word]
			n[field]++
			doc.words[word] = n
			doc.lengths[field]++
		}
	}
}

// Search returns the indices of at most limit documents that match the query, the best first. Equally good documents are in the order of
// their ids. One source has at most three quarters of the result, unless too few documents of other sources match.
func Search(query string, docs []*Document, limit int) []int { return search(query, docs, nil, limit) }

// search does the same as [Search], but omits the documents whose indices are in the set without.
func search(query string, docs []*Document, without map[int]bool, limit int) []int {
	scores := scores(query, docs)
	var order []int
	for i, score := range scores {
		if score > 0 && !without[i] {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(docs[a].tool.ID, docs[b].tool.ID))
	})
	most := max(1, 3*limit/4)
	taken := map[string]int{}
	var found, rest []int
	for _, i := range order {
		source := docs[i].tool.Source
		if taken[source]++; taken[source] <= most {
			found = append(found, i)
		} else {
			rest = append(rest, i)
		}
	}
	found = append(found, rest...)
	return found[:min(len(found), limit)]
}

// scores returns a number for each document: 0 when it has no word of the query.
func scores(query string, docs []*Document) []float64 {
	var means [fields]float64
	for _, doc := range docs {
		for f, n := range doc.lengths {
			means[f] += n // The sum is exact, so it does not depend on the order of the documents.
		}
	}
	for f := range means {
		means[f] /= float64(len(docs))
	}
	sums, counts := make([]float64, len(docs)), make([]float64, len(docs))
	for _, word := range queryStems(query) {
		found := 0.0
		for i, doc := range docs {
			counts[i] = doc.count(word, 1, &means)
			for _, other := range synonyms[word] {
				counts[i] += doc.count(other, alike, &means)
			}
			if counts[i] > 0 {
				found++
			}
		}
		rarity := math.Log(1 + (float64(len(docs))-found+0.5)/(found+0.5))
		for i, n := range counts {
			sums[i] += rarity * n / (n + saturation)
		}
	}
	return sums
}

// count returns how often a document has a word, weighted by the fields and their lengths.
func (doc *Document) count(word string, weight float64, means *[fields]float64) (sum float64) {
	for f, times := range doc.words[word] {
		if times > 0 {
			sum += weight * weights[f] * times / (1 - lengthNorm + lengthNorm*doc.lengths[f]/means[f])
		}
	}
	return sum
}
