package tool

import (
	"fmt"
	"net/url"
	"strings"
)

// ArtifactScheme is the prefix of the handle of an artifact.
const ArtifactScheme = "artifact://"

// ArtifactHandle returns the handle of an artifact or output stream of a call. When output is cut, the model reads the handle instead of
// the rest. Tools such as read accept the handle.
func ArtifactHandle(callID, name string) string {
	return ArtifactScheme + url.PathEscape(callID) + "/" + url.PathEscape(name)
}

// ParseArtifactHandle returns the call id and the name in a handle from [ArtifactHandle].
func ParseArtifactHandle(handle string) (callID, name string, err error) {
	rest, ok := strings.CutPrefix(handle, ArtifactScheme)
	id, name, both := strings.Cut(rest, "/")
	if !ok || !both || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("artifact handle %q: want artifact://CALL/NAME", handle)
	}
	if id, err = url.PathUnescape(id); err == nil {
		name, err = url.PathUnescape(name)
	}
	if err != nil || id == "" || name == "" {
		return "", "", fmt.Errorf("artifact handle %q: want artifact://CALL/NAME", handle)
	}
	return id, name, nil
}
