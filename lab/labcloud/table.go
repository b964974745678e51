package labcloud

import (
	"container/list"
	"iter"
)

// table keeps values by id, in insertion order. Every method takes constant time; the zero value is ready for use.
type table[T any] struct {
	order list.List
	byID  map[string]*list.Element
}

// row is one entry of a table.
type row[T any] struct {
	id    string
	value T
}

// add appends v under an id that is new to the table.
func (t *table[T]) add(id string, v T) {
	if t.byID == nil {
		t.byID = make(map[string]*list.Element)
	}
	t.byID[id] = t.order.PushBack(row[T]{id, v})
}

// get returns the value with this id.
func (t *table[T]) get(id string) (v T, ok bool) {
	e, ok := t.byID[id]
	if !ok {
		return v, false
	}
	return e.Value.(row[T]).value, true
}

// remove removes the value with this id, if there is one.
func (t *table[T]) remove(id string) {
	if e, ok := t.byID[id]; ok {
		t.order.Remove(e)
		delete(t.byID, id)
	}
}

// size returns the number of values.
func (t *table[T]) size() int { return len(t.byID) }

// all yields ids and values, oldest first. The loop may remove the value that it just got.
func (t *table[T]) all() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		var next *list.Element
		for e := t.order.Front(); e != nil; e = next {
			next = e.Next()
			if r := e.Value.(row[T]); !yield(r.id, r.value) {
				return
			}
		}
	}
}

// some yields the values with the given ids, if they exist.
func (t *table[T]) some(ids []string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, id := range ids {
			if v, ok := t.get(id); ok && !yield(id, v) {
				return
			}
		}
	}
}

// newest yields ids and values, newest first, which is Nova's order.
func (t *table[T]) newest() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for e := t.order.Back(); e != nil; e = e.Prev() {
			if r := e.Value.(row[T]); !yield(r.id, r.value) {
				return
			}
		}
	}
}
