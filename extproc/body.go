package extproc

import (
	"errors"
	"fmt"
	"io"

	"httpjet/budget"
	"httpjet/exchange"
)

// BodyError is the answer for a request body that could not be read or held. An
// error that nobody gave a status is the client's broken connection.
func BodyError(err error) error {
	_, known := errors.AsType[*exchange.Error](err)
	switch {
	case known || errors.Is(err, exchange.ErrClientGone):
		return err
	case errors.Is(err, budget.ErrSlow):
		return &exchange.Error{Status: 408, Reason: "request_stalled", Err: err, Close: true}
	case errors.Is(err, budget.ErrNoRoom):
		return &exchange.Error{Status: 503, Reason: "overloaded", Err: err, Close: true,
			Fields: []exchange.Field{{Name: "Retry-After", Value: "1"}}}
	case errors.Is(err, budget.ErrShort), errors.Is(err, budget.ErrLong), errors.Is(err, io.ErrUnexpectedEOF):
		return &exchange.Error{Status: 400, Reason: "bad_request", Err: err, Close: true}
	}
	return fmt.Errorf("%w: request body: %v", exchange.ErrClientGone, err)
}
