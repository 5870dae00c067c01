// Package xmlconf reads LiteSpeed-style XML, and OpenLiteSpeed's plain-text
// dialect by the same declarations: bytes become a tree with positions, the tree
// becomes typed values with defaults, and everything a person should know about
// the files becomes a Finding.
//
// Each element is declared once, as a tagged field of a struct. Decoding, range
// checks, findings, the migration report, XML schemas and docs/config.md come
// from that line. The tags:
//
//	conf    element name; "list/item" is a repeated item in an optional wrapper
//	unit    s (seconds), size (bytes, suffix K M G), octal, path (variables
//	        expanded, relative to the server root), text (kept as written, with
//	        its line breaks), block (children are known and not looked at)
//	range   "1..3600", "1..", or the words "connect|GET|HEAD"
//	default the value where the element is absent, blank or out of range
//	as      treatment: honoured (or none), later, closes, noeffect, obsolete;
//	        ",strict" makes every fault a load error (R-CONV-6); ",minor" makes the
//	        finding about it a remark, for it changes no answer and lifts no limit
//	why     key of the table of reasons, for noeffect and obsolete: why, and the risk
//	changed how it departs from LiteSpeed once it is honoured
//	when    condition of changed: "=0" a value, "type=proxy|fcgi" of another child
//	litespeed  LiteSpeed's default, where it differs
//	expand  "1": variables are expanded
//	gate    child that must be on for a group's treatment to be reported
//	code    finding code used instead of the treatment's own
//	doc     one sentence for docs/config.md
//
// A field named _ declares an element that is known and has no value here.
//
// The package resolves no reference between elements: whether a handler names a
// processor, or a map names a host, is decided by package generation.
package xmlconf
