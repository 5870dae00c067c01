package freshness

import (
	"net/url"
	"strings"
)

// Invalidates reports whether an answer means that the origin has changed what is
// stored of the target: the method is not known to be safe, and it was successful
// (RFC 9111 §4.4).
func Invalidates(method string, status int) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return false
	}
	return status >= 200 && status < 400
}

// Affected returns the target in origin form that a Location or Content-Location of
// such an answer names, if it is one of the same origin.
func Affected(scheme, host, target, location string) (string, bool) {
	if location == "" {
		return "", false
	}
	base, err := url.Parse(scheme + "://" + host + target)
	if err != nil {
		return "", false
	}
	u, err := base.Parse(location)
	if err != nil || !strings.EqualFold(u.Scheme, scheme) || !strings.EqualFold(u.Host, host) || u.User != nil {
		return "", false
	}
	return u.RequestURI(), true
}
