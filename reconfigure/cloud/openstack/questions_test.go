package openstack

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cloudtest"
)

// asked has the kinds of filtered lists that the client has requested in all tests of the package.
var asked = struct {
	sync.Mutex
	kinds map[string]bool
}{kinds: map[string]bool{}}

func noteQuestion(r *http.Request) {
	if kind := cloudtest.Question(r.URL); r.Method == http.MethodGet && kind != "" {
		asked.Lock()
		defer asked.Unlock()
		asked.kinds[kind] = true
	}
}

// TestMain fails the package's tests if the client has requested a kind of list that no check of package cloudtest
// requests from the real OpenStack.
func TestMain(m *testing.M) {
	code := m.Run()
	for kind := range asked.kinds {
		if !slices.Contains(cloudtest.Questions(), kind) {
			fmt.Printf("the client asks for %q: add it to cloudtest.Questions, and a check for it\n", kind)
			code = 1
		}
	}
	os.Exit(code)
}

// TestEveryQuestionIsKnown keeps kinds that the client does not request out of cloudtest's list.
func TestEveryQuestionIsKnown(t *testing.T) {
	t.Run("asking", func(t *testing.T) {
		t.Run("servers", TestServersAreAskedForByName)
		t.Run("cloud", TestClientIsACloud)
		t.Run("images", TestClientMakesImages)
	})
	asked.Lock()
	defer asked.Unlock()
	for _, kind := range cloudtest.Questions() {
		if !asked.kinds[kind] {
			t.Errorf("the client no longer asks for %q: remove it from cloudtest.Questions", kind)
		}
	}
}
