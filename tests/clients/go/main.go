// The walk with Go's net/http: `walk URL NAME default|h2c`. A private CA is named by SSL_CERT_FILE.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
)

type object = map[string]any
type list = []any

var (
	url, name = os.Args[1], os.Args[2]
	client    = http.DefaultClient
	group     = []string{"X-Producer-Group", "walk"}
)

type lease struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
	AfterMs int    `json:"after_ms,omitempty"`
	Status  string `json:"status,omitempty"`
}

type batch struct {
	Cursor object
	Events []struct{ N int }
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func told[T any](step string, answer *http.Response, seen []T) {
	protocol := strings.TrimSuffix(answer.Proto, ".0")
	line, err := json.Marshal(object{"step": step, "status": answer.StatusCode, "protocol": protocol, "seen": seen})
	check(err)
	fmt.Println(string(line))
}

func send(method, path string, body io.Reader, headers ...string) *http.Response {
	request, err := http.NewRequest(method, url+path, body)
	check(err)
	for at := 0; at < len(headers); at += 2 {
		request.Header.Set(headers[at], headers[at+1])
	}
	answer, err := client.Do(request)
	check(err)
	return answer
}

// The answer to a call, and its body; the connection is free again.
func call(method, path string, form any, headers ...string) (*http.Response, []byte) {
	body, err := json.Marshal(form)
	check(err)
	answer := send(method, path, bytes.NewReader(body), headers...)
	return answer, whole(answer)
}

func whole(answer *http.Response) []byte {
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(err)
	return text
}

func read[T any](text []byte) (document T) {
	check(json.Unmarshal(text, &document))
	return document
}

func each[T, R any](items []T, field func(T) R) []R {
	fields := []R{}
	for _, item := range items {
		fields = append(fields, field(item))
	}
	return fields
}

// The next line of a stream that is not there to keep it alive; false at its end.
func next[T any](lines *bufio.Scanner) (document T, found bool) {
	for lines.Scan() {
		if len(lines.Bytes()) > 0 {
			return read[T](lines.Bytes()), true
		}
	}
	check(lines.Err())
	return document, false
}

func numbers(one batch) []int {
	return each(one.Events, func(event struct{ N int }) int { return event.N })
}

func streams() {
	events := "/event-types/" + name + "/events"
	answer, text := call("POST", "/event-types", object{"name": name, "owning_application": "walk", "category": "undefined"})
	told("create event type", answer, list{})
	answer, text = call("POST", events, []object{{"n": 1}, {"n": 2}, {"n": 3}})
	told("publish", answer, list{})
	cursors := `[{"partition": "0", "offset": "BEGIN"}]`
	stream := send("GET", events+"?stream_limit=3&batch_limit=3&stream_timeout=30", nil, "X-Nakadi-Cursors", cursors)
	seen, lines := []int{}, bufio.NewScanner(stream.Body)
	for one, found := next[batch](lines); found; one, found = next[batch](lines) {
		seen = append(seen, numbers(one)...)
	}
	told("read events", stream, seen)
	stream.Body.Close()

	answer, text = call("POST", "/subscriptions", object{
		"owning_application": "walk", "event_types": list{name}, "read_from": "begin"})
	subscription := read[object](text)
	told("subscribe", answer, subscription["event_types"].(list))
	path := "/subscriptions/" + subscription["id"].(string)
	stream = send("GET", path+"/events?batch_limit=3", nil)
	first, _ := next[batch](bufio.NewScanner(stream.Body))
	told("read subscription", stream, numbers(first))
	answer, text = call("POST", path+"/cursors", object{"items": list{first.Cursor}},
		"X-Nakadi-StreamId", stream.Header.Get("X-Nakadi-StreamId"))
	told("commit", answer, list{})
	stream.Body.Close()
	answer = send("GET", path+"/cursors", nil)
	items := read[struct{ Items []object }](whole(answer)).Items
	told("committed", answer, each(items, func(item object) bool { return item["offset"] == first.Cursor["offset"] }))
}

func topics() {
	topic := "/topics/" + name
	results := func(step string, answer *http.Response, text []byte) []lease {
		found := read[struct{ Results []lease }](text).Results
		told(step, answer, each(found, func(result lease) string { return result.Status }))
		return found
	}
	schedule := func(step string, ids ...string) {
		messages := each(ids, func(id string) object { return object{"id": id, "after_ms": 0, "body": object{"for": id}} })
		answer, text := call("POST", topic+"/messages", object{"messages": messages}, group...)
		results(step, answer, text)
	}
	hold := func(step, how string, leases []lease, afterMs int) []lease {
		claims := each(leases, func(one lease) lease { return lease{ID: one.ID, Version: one.Version, AfterMs: afterMs} })
		answer, text := call("POST", topic+"/leases/"+how, object{"consumer_id": "walker", "leases": claims})
		return results(step, answer, text)
	}
	ids := func(leases []lease) []string { return each(leases, func(one lease) string { return one.ID }) }

	answer, text := call("PUT", topic, object{"bucket_count": 8})
	told("create topic", answer, list{read[object](text)["name"]})
	schedule("schedule", "m1", "m2", "m3")
	leases := []lease{}
	for pulls := 0; pulls < 30 && len(leases) < 3; pulls++ {
		pull := object{"consumer_id": "walker", "limit": 3 - len(leases), "wait_ms": 2000}
		answer, text = call("POST", topic+"/leases", pull)
		leases = append(leases, read[struct{ Leases []lease }](text).Leases...)
	}
	slices.SortFunc(leases, func(one, other lease) int { return strings.Compare(one.ID, other.ID) })
	told("lease", answer, ids(leases))
	extended := hold("extend", "extend", leases, 60000)
	hold("delete", "delete", extended[:2], 0)

	stream := send("GET", topic+"/leases?consumer_id=walker", nil)
	defer stream.Body.Close()
	pushed := bufio.NewScanner(stream.Body)
	first, _ := next[lease](pushed)
	schedule("schedule while streaming", "m4")
	second, _ := next[lease](pushed)
	told("push", stream, ids([]lease{first, second}))
	hold("delete what was pushed", "delete", []lease{first, second}, 0)
}

func problem(step string, answer *http.Response, text []byte) {
	document := read[object](text)
	told(step, answer, list{answer.Header.Get("Content-Type"), document["status"], document["code"]})
}

func bodies() {
	events, messages := "/event-types/"+name+"/events", "/topics/"+name+"/messages"
	answer, text := call("POST", events, object{"n": 1})
	problem("not an array", answer, text)
	answer = send("GET", "/event-types/"+name+"-no", nil)
	problem("no such event type", answer, whole(answer))
	answer, text = call("PATCH", messages+"/m1", object{"after_ms": "soon"}, group...)
	problem("no instant", answer, text)
	statuses := []int{}
	for n := range 20 {
		answer, _ = call("POST", events, []object{{"n": n}})
		statuses = append(statuses, answer.StatusCode)
	}
	answer = send("GET", "/health", nil)
	whole(answer)
	told("keep alive", answer, slices.Compact(statuses))
	large := []object{}
	for n := range 8 {
		large = append(large, object{"n": n, "filling": strings.Repeat("x", 500_000)})
	}
	answer, text = call("POST", events, large)
	told("large body", answer, slices.DeleteFunc([]string{string(text)}, func(why string) bool { return why == "" }))
	// Of a plain reader nobody knows the length.
	pieces := io.MultiReader(strings.NewReader(`{"messages": [`), strings.NewReader(`{"id": "c1", "after_ms": 0, "body": 1}]}`))
	answer = send("POST", messages, pieces, group...)
	found := read[struct{ Results []lease }](whole(answer)).Results
	told("body in chunks", answer, each(found, func(result lease) string { return result.Status }))
}

func main() {
	if os.Args[3] == "h2c" {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		client = &http.Client{Transport: &http.Transport{Protocols: protocols}}
	}
	streams()
	topics()
	bodies()
}
