package web_test

import (
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/browser"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }
