package files

// op says that n lines stay (' '), are removed ('-') or are added ('+'). a and b are the positions of these lines in the two texts.
type op struct {
	kind    byte
	n, a, b int
}

// shortest returns the shortest edit script from a to b (Myers, "An O(ND) Difference Algorithm and Its Variations", 1986). It returns false
// when more than diffEdits lines differ, because its time is proportional to the number of lines times the number of differences.
func shortest(a, b []string) ([]op, bool) {
	x, y := intern(a, b)
	most := min(len(x)+len(y), diffEdits)
	reach := make([]int32, 2*most+3) // furthest position in a that was reached, for each diagonal
	var trace [][]int32              // copy of the used part of reach, from before each round
	for d := range most + 1 {
		trace = append(trace, append([]int32(nil), reach[most+1-d:most+2+d]...))
		for k := -d; k <= d; k += 2 {
			at := most + 1 + k
			i := int(reach[at-1]) + 1
			if k == -d || k != d && reach[at-1] < reach[at+1] {
				i = int(reach[at+1])
			}
			for i < len(x) && i-k < len(y) && x[i] == y[i-k] {
				i++
			}
			reach[at] = int32(i)
			if i >= len(x) && i-k >= len(y) {
				return walkBack(trace, len(x), len(y)), true
			}
		}
	}
	return nil, false
}

// walkBack reconstructs the edit script from the trace.
func walkBack(trace [][]int32, i, j int) []op {
	var back []op
	for d := len(trace) - 1; d > 0; d-- {
		reach := trace[d] // positions on the diagonals -d to d
		k := i - j
		down := k == -d || k != d && reach[d+k-1] < reach[d+k+1]
		var pi, pj int
		if down {
			pi = int(reach[d+k+1])
			pj = pi - (k + 1)
		} else {
			pi = int(reach[d+k-1])
			pj = pi - (k - 1)
		}
		si, sj := pi, pj // start of the sequence of equal lines
		if down {
			sj++
		} else {
			si++
		}
		back = prepend(back, op{' ', i - si, si, sj})
		if down {
			back = prepend(back, op{'+', 1, pi, pj})
		} else {
			back = prepend(back, op{'-', 1, pi, pj})
		}
		i, j = pi, pj
	}
	back = prepend(back, op{' ', i, 0, 0})
	for l, r := 0, len(back)-1; l < r; l, r = l+1, r-1 {
		back[l], back[r] = back[r], back[l]
	}
	return back
}

// prepend adds an op that comes before the earlier ones in the text. walkBack finds the ops from the end to the beginning.
func prepend(back []op, o op) []op {
	if o.n == 0 {
		return back
	}
	if last := len(back) - 1; last >= 0 && back[last].kind == o.kind {
		back[last].n += o.n
		back[last].a, back[last].b = o.a, o.b
		return back
	}
	return append(back, o)
}

// intern replaces each line by a number, so that comparing two lines means comparing two integers.
func intern(a, b []string) (x, y []int32) {
	numbers := make(map[string]int32, len(a))
	number := func(lines []string) []int32 {
		out := make([]int32, len(lines))
		for i, l := range lines {
			n, ok := numbers[l]
			if !ok {
				n = int32(len(numbers))
				numbers[l] = n
			}
			out[i] = n
		}
		return out
	}
	return number(a), number(b)
}

// allOf returns a simple edit script: it keeps the equal lines at the beginning, removes all other lines of a, and adds all other lines of
// b.
func allOf(a, b []string) []op {
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	var ops []op
	for _, o := range []op{{' ', same, 0, 0}, {'-', len(a) - same, same, same}, {'+', len(b) - same, len(a), same}} {
		if o.n > 0 {
			ops = append(ops, o)
		}
	}
	return ops
}

func tally(ops []op) (added, removed int) {
	for _, o := range ops {
		switch o.kind {
		case '+':
			added += o.n
		case '-':
			removed += o.n
		}
	}
	return added, removed
}

// firstChange returns the number of the first line that differs in the new text, counted from 1.
func firstChange(ops []op, head int) int {
	for _, o := range ops {
		if o.kind != ' ' {
			return head + o.b + 1
		}
	}
	return 0
}
