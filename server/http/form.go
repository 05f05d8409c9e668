package httpserver

import (
	"fmt"
	"mime"
	"net/http"

	"connectrpc.com/connect"
	"github.com/toold-dev/toold/server/http/jsonform"
)

// withForms adds the JSON forms to the handlers of the API. The media type of a request selects the form of its response.
func withForms() connect.HandlerOption {
	var options []connect.HandlerOption
	for _, form := range jsonform.All() {
		options = append(options, connect.WithCodec(form))
	}
	return connect.WithHandlerOptions(options...)
}

// formOf returns the form with a name. An empty name means the plain form.
func formOf(name string) (jsonform.Form, error) {
	switch name {
	case "":
		return jsonform.Plain(), nil
	case "readable":
		return jsonform.Readable(), nil
	}
	return jsonform.Form{}, invalid(jsonform.Parameter, fmt.Sprintf("want readable, not %q", name))
}

// formFromQuery copies the form from the query to the media type. Some clients cannot easily change their media type.
func formFromQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" && r.Method == http.MethodPost && r.URL.Query().Has(jsonform.Parameter) {
			form, err := formOf(r.URL.Query().Get(jsonform.Parameter))
			if err != nil {
				writeError(w, r, err)
				return
			}
			if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil {
				r.Header.Set("Content-Type", form.MediaType(media))
			}
		}
		next.ServeHTTP(w, r)
	})
}
