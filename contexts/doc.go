// Package contexts is the immutable table of a generation: listener and Host
// lead to a virtual host, its path to a context, a script or a file, and from
// there to a handler. It decides; the handlers that it holds do the work. It
// reads no configuration and imports no handler: generation puts them here.
//
// Table.Serve runs the steps of docs/tour.md in their order. Nothing in a Table
// changes after it was built.
package contexts
