// Package fenceexample holds the example of docs/when-not-to-use-a-lock.md that needs an SQL database, and its tests, in a
// module of its own: the library does not depend on a database.
package fenceexample
