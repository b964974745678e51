package nodeset

import "strings"

// fold writes names, which must be in canonical order, as a hostlist. Only the number at the end of a name goes into
// brackets. Slurm accepts several bracket groups in a name, but only some sets are cross products, and every set must
// have one form.
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

// takePrefix returns the longest run of names at the start that fits into one pair of brackets: one prefix and the
// numbers after it. A name without a number is a run of one.
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

// foldNumbers writes the text between two brackets.
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

// follows reports whether a range that contains number continues with next: next is number plus one, and has the same
// width, or one digit more after 9, 99 and so on. The width of a range is that of its first number: 10 follows 9, 100
// follows 099, but 010 does not follow 9. It compares digits, so that no number is too large.
func follows(number, next string) bool {
	kept := strings.TrimRight(number, "9")
	zeros := len(number) - len(kept)
	if kept == "" {
		return len(next) == len(number)+1 && next[0] == '1' && allZeros(next[1:])
	}
	last := len(kept) - 1
	return len(next) == len(number) && next[:last] == kept[:last] && next[last] == kept[last]+1 &&
		allZeros(next[len(next)-zeros:])
}

func allZeros(digits string) bool { return strings.Trim(digits, "0") == "" }
