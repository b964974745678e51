package nodeset

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxNodes is the maximum number of names in a hostlist, duplicates included. It is Slurm's limit for one range
// (scontrol 22.05); Slurm has no limit for several ranges.
const MaxNodes = 65536

// ParseError is a syntax error in a hostlist. A retry gives the same error.
type ParseError struct {
	Hostlist string // the text; several arguments are joined by commas
	Offset   int    // of the byte in Hostlist that is wrong, from 0; len(Hostlist) if something is missing at the end
	Reason   string // a message for people
}

// Error quotes the hostlist, or the part around the offset if it is long.
func (e *ParseError) Error() string {
	return fmt.Sprintf("hostlist %s, offset %d: %s", abbreviate(e.Hostlist, e.Offset), e.Offset, e.Reason)
}

// abbreviate quotes text, or the part around offset if it is long.
func abbreviate(text string, offset int) string {
	const around = 40
	from, to := max(0, offset-around), min(len(text), offset+around)
	quoted := strconv.Quote(text[from:to])
	if from > 0 {
		quoted = "…" + quoted
	}
	if to < len(text) {
		quoted += "…"
	}
	return quoted
}

// Parse returns the set of nodes in a hostlist. Several arguments are one hostlist, joined by commas.
//
// The notation is Slurm's (slurm.conf(5), NODE CONFIGURATION), as "scontrol show hostnames" expands it:
//
//	hostlist = name { "," name }
//	name     = text | { [ text ] "[" range { "," range } "]" }
//	range    = number [ "-" number ]
//
// The numbers of a range have the width of its first number: [08-10] is 08 09 10, [8-10] and [8-010] are 8 9 10, and
// [8,010] is 8 010. A name with brackets ends in one. Names may repeat. Every name must satisfy [ValidName]. The error
// is a [*ParseError]: for any other text, for no name at all, and for more than [MaxNodes] names. The number of names
// is checked before the hostlist is expanded.
func Parse(hostlist ...string) (NodeSet, error) {
	if len(hostlist) == 0 {
		hostlist = []string{""}
	}
	p := parser{text: strings.Join(hostlist, ",")}
	for _, argument := range hostlist {
		p.end = p.pos + len(argument)
		if err := p.list(); err != nil {
			return NodeSet{}, err
		}
		p.pos++ // the comma between arguments
	}
	return canonical(p.names), nil
}

// parser reads one argument after the other, so that no bracket spans two arguments.
type parser struct {
	text     string // all arguments
	pos, end int    // the rest of the current argument
	names    []string
}

// pattern is one element of a hostlist before it is expanded.
type pattern struct {
	parts []part
	count int // of its names
	width int // of the longest name
}

// part is one section of a pattern: text, or the ranges between two brackets.
type part struct {
	text  string
	spans []span
}

// span is a range: the numbers from lo to hi, padded with zeros to a width.
type span struct {
	lo, hi uint64
	width  int
}

func (p *parser) fault(offset int, format string, args ...any) error {
	return &ParseError{Hostlist: p.text, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

func (p *parser) list() error {
	for {
		if err := p.element(); err != nil {
			return err
		}
		if !p.skip(',') {
			return nil
		}
	}
}

// element reads up to a comma or the end, and adds the names.
func (p *parser) element() error {
	start := p.pos
	pat := pattern{count: 1}
	if p.pos == p.end || p.text[p.pos] == ',' {
		return p.fault(start, "a node name is missing")
	}
	if len(p.names) == MaxNodes {
		return p.fault(start, "more than %d names", MaxNodes)
	}
	for p.pos < p.end && p.text[p.pos] != ',' {
		read := p.literal
		if p.skip('[') {
			read = p.bracket
		}
		if err := read(&pat); err != nil {
			return err
		}
	}
	for _, name := range pat.expand() {
		if fault := nameFault(name); fault != "" {
			return p.fault(start, "node name %q %s", name, fault)
		}
		p.names = append(p.names, name)
	}
	return nil
}

// literal reads text outside brackets.
func (p *parser) literal(pat *pattern) error {
	start := p.pos
	for p.pos < p.end && !strings.ContainsRune(",[", rune(p.text[p.pos])) {
		if p.text[p.pos] == ']' {
			return p.fault(p.pos, "this bracket is not opened")
		}
		r, _ := utf8.DecodeRuneInString(p.text[p.pos:p.end])
		if fault := runeFault(r); fault != "" {
			return p.fault(p.pos, "node name has %s", fault)
		}
		p.pos++
	}
	if len(pat.parts) > 0 && (p.pos == p.end || p.text[p.pos] == ',') {
		return p.fault(start, "text after the last bracket: a name with brackets must end in one")
	}
	pat.parts = append(pat.parts, part{text: p.text[start:p.pos]})
	return p.widen(pat, start, p.pos-start)
}

// bracket reads ranges after an opening bracket.
func (p *parser) bracket(pat *pattern) error {
	open := p.pos - 1
	var spans []span
	count, widest := 0, 0
	for {
		start := p.pos
		r, err := p.span(open)
		if err != nil {
			return err
		}
		// A division, because the product may overflow an int.
		n := r.hi - r.lo + 1
		if room := (MaxNodes - len(p.names)) / pat.count; n > MaxNodes || count+int(n) > room {
			return p.fault(start, "more than %d names", MaxNodes)
		}
		count += int(n)
		widest = max(widest, r.width, len(strconv.FormatUint(r.hi, 10)))
		spans = append(spans, r)
		if !p.skip(',') {
			break
		}
	}
	if !p.skip(']') {
		return p.unexpected(open, "a comma, a hyphen or the closing bracket")
	}
	pat.parts = append(pat.parts, part{spans: spans})
	pat.count *= count
	return p.widen(pat, open, widest)
}

// span reads a range; open is where its bracket was opened.
func (p *parser) span(open int) (span, error) {
	start := p.pos
	lo, width, err := p.number(open)
	if err != nil {
		return span{}, err
	}
	hi := lo
	if p.skip('-') {
		if hi, _, err = p.number(open); err != nil {
			return span{}, err
		}
	}
	if hi < lo {
		return span{}, p.fault(start, "the range is descending")
	}
	return span{lo: lo, hi: hi, width: width}, nil
}

func (p *parser) number(open int) (value uint64, width int, err error) {
	digits := leadingDigits(p.text[p.pos:p.end])
	if digits == "" {
		return 0, 0, p.unexpected(open, "a number")
	}
	value, ok := parseNumber(digits)
	if !ok {
		return 0, 0, p.fault(p.pos, tooLarge)
	}
	p.pos += len(digits)
	return value, len(digits), nil
}

// unexpected is the error inside a bracket that was opened at open.
func (p *parser) unexpected(open int, wanted string) error {
	if p.pos == p.end {
		return p.fault(open, "this bracket is not closed")
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:p.end])
	return p.fault(p.pos, "found %q in brackets instead of %s", r, wanted)
}

// skip reads c if it comes next.
func (p *parser) skip(c byte) bool {
	if p.pos == p.end || p.text[p.pos] != c {
		return false
	}
	p.pos++
	return true
}

// widen checks the length of the names before they are made.
func (p *parser) widen(pat *pattern, offset, width int) error {
	pat.width += width
	if pat.width > maxName {
		return p.fault(offset, "node name %s", tooLong)
	}
	return nil
}

// expand makes the names.
func (pat pattern) expand() []string {
	names := []string{""}
	for _, part := range pat.parts {
		texts := part.expand()
		longer := make([]string, 0, len(names)*len(texts))
		for _, name := range names {
			for _, text := range texts {
				longer = append(longer, name+text)
			}
		}
		names = longer
	}
	return names
}

func (p part) expand() []string {
	if p.spans == nil {
		return []string{p.text}
	}
	var texts []string
	for _, r := range p.spans {
		for n := r.lo; n <= r.hi; n++ {
			texts = append(texts, fmt.Sprintf("%0*d", r.width, n))
		}
	}
	return texts
}
