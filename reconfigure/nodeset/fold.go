package nodeset

import "strings"

// fold writes names, which are in canonical order, as a hostlist. Only the number at a name's end goes into brackets: Slurm takes several bracket groups in
// a name, but a cross product is not the shape of every set, and one form must do for all.
func fold(names []string) string {
	var b strings.Builder
	for len(names) > 0 {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		prefix, numbers := takePrefix(names)
		names = names[len(numbers):]
		b.WriteString(prefix)
		if len(numbers) == 1 {
			b.WriteString(numbers[0])
			continue
		}
		b.WriteByte('[')
		foldNumbers(&b, numbers)
		b.WriteByte(']')
	}
	return b.String()
}

// takePrefix is the longest start of names that brackets can hold: one prefix and the numbers after it. A name without a number stands alone.
func takePrefix(names []string) (prefix string, numbers []string) {
	prefix, first := split(names[0])
	numbers = append(numbers, first)
	for _, name := range names[1:] {
		p, number := split(name)
		if p != prefix || first == "" {
			break
		}
		numbers = append(numbers, number)
	}
	return prefix, numbers
}

// foldNumbers writes numbers as what stands between brackets.
func foldNumbers(b *strings.Builder, numbers []string) {
	for first := 0; first < len(numbers); {
		last := first
		for last+1 < len(numbers) && follows(numbers[last], numbers[last+1]) {
			last++
		}
		if first > 0 {
			b.WriteByte(',')
		}
		b.WriteString(numbers[first])
		if last > first {
			b.WriteByte('-')
			b.WriteString(numbers[last])
		}
		first = last + 1
	}
}

// follows tells whether next is the number that a range counts to after number: of the same width, or one digit longer where the digits do not suffice.
// A range that starts with any number therefore reaches next as it is written, since its width is that of its first number (9 to 10, 099 to 100, never
// 9 to 010). It works on the digits, so no number is too large.
func follows(number, next string) bool {
	kept := strings.TrimRight(number, "9")
	zeros := len(number) - len(kept)
	if kept == "" {
		return len(next) == len(number)+1 && next[0] == '1' && allZeros(next[1:])
	}
	last := len(kept) - 1
	return len(next) == len(number) && next[:last] == kept[:last] && next[last] == kept[last]+1 && allZeros(next[len(next)-zeros:])
}

func allZeros(digits string) bool { return strings.Trim(digits, "0") == "" }
