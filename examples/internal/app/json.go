package app

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
)

// Decode reads the request's body, one JSON object of v's fields and nothing else. Where it is not, it answers 400 with
// the reason and returns false.
func Decode(w http.ResponseWriter, r *http.Request, v any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.Decode(new(struct{})) != io.EOF {
		err = errors.New("there is more than one JSON value")
	}
	if err != nil {
		Fail(w, http.StatusBadRequest, "the body is not the JSON that this takes: "+err.Error())
		return false
	}
	return true
}

// Reply answers with v as JSON.
func Reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// Fail answers with a reason.
func Fail(w http.ResponseWriter, status int, reason string) {
	Reply(w, status, struct {
		Error string `json:"error"`
	}{reason})
}

// Unavailable answers 503 for a Redis that cannot answer; the cause goes to the log and not to the client.
func Unavailable(w http.ResponseWriter, err error) {
	log.Print(err)
	Fail(w, http.StatusServiceUnavailable, "Redis cannot answer")
}
