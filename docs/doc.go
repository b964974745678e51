// Package docs holds the documents. Its tests check their links, their index and their form.
package docs
