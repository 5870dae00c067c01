package exchange

import "context"

// Kept is a whole body that a cache keeps and is about to send as it is. Beside it the
// cache keeps copies in content codings, each made once: by the first exchange that
// sends one, while others that want the same wait for it. Any number of exchanges use a
// Kept at once; it is valid longer than any of them.
type Kept interface {
	// Coded returns the copy in the coding of that name, shared and never written to, or
	// says what the caller is to do.
	Coded(name string) ([]byte, Copy)

	// AwaitCoded is Coded, but waits for somebody who makes the copy: a little, and not
	// beyond the end of ctx.
	AwaitCoded(ctx context.Context, name string) ([]byte, Copy)

	// KeepCoded is called once by whom Coded has told CopyYours: with CopyHere and the
	// copy, which nobody writes to from now on; with CopyUseless; or with CopyNone if
	// nothing came of it.
	KeepCoded(name string, p []byte, c Copy)
}

// Copy says what there is of a body in one coding.
type Copy uint8

const (
	CopyNone    Copy = iota // none, and the caller is not to make it: he codes for himself
	CopyHere                // it is there
	CopyYours               // the caller makes it, and calls KeepCoded
	CopyUseless             // it would not be smaller: the body goes out as it is
)
