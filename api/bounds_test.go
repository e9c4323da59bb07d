package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

const size = 4 << 20 // enough to go far beyond every bound

// full is a body of size bytes: head, as many copies of each as fit, tail.
func full(head, each, tail string) []byte {
	b := []byte(head + strings.Repeat(each, (size-len(head)-len(tail))/len(each)))
	return append([]byte(strings.TrimSuffix(string(b), ",")), tail...)
}

// most is what decoding may allocate in all: room for 100,000 short strings, or
// as many releases, whatever the body's length.
func most(name string) uint64 {
	if name == "releases" {
		return 64 << 20
	}
	return 16 << 20
}

// The largest bodies of the smallest values make no more memory than a few
// times what a body of ids that somebody could hold makes: decoding stops.
func TestDecodingStopsAtItsBounds(t *testing.T) {
	const release = `{"sessionId":"s","namespace":"/t","id":"a"}`
	open := register + `,`
	for name, c := range map[string]struct {
		into any
		body []byte
		want string
	}{
		"empty ids":            {new(Register), full(open+`"instances":{"/t":[`, `"",`, `]}}`), "instances: want at most 100000 ids"},
		"ids of one character": {new(Register), full(open+`"instances":{"/t":[`, `"a",`, `]}}`), "instances: want at most 100000 ids"},
		"ids over namespaces":  {new(Register), full(open+`"instances":{`, `"/t":[""`+strings.Repeat(`,""`, 999)+`],`, `}}`), "instances: want at most 100000 ids"},
		"a long id":            {new(Register), full(open+`"instances":{"/t":["`, `a`, `"]}}`), "instances: want an object of lists of strings of at most 256"},
		"lists in a list":      {new(Register), full(open+`"instances":{"/t":[`, `[],`, `]}}`), "instances: want an object of lists"},
		"nested lists":         {new(Register), append(append([]byte(open+`"instances":{"/t":`), strings.Repeat("[", 9000)...), strings.Repeat("]", 9000)+`}}`...), "instances: want an object of lists"},
		"a long namespace":     {new(Register), full(open+`"instances":{"`, `a`, `":[]}}`), "instances: want an object of lists"},
		"escapes":              {new(Register), full(open+`"env":"`, `\u0061`, `"}`), "env: want at most 256"},
		"envs":                 {new(Register), full(open+`"envs":{`, `"":"",`, `}}`), "envs: want at most 256 namespaces"},
		"long env":             {new(Register), full(open+`"envs":{"/t":"`, `a`, `"}}`), "envs: want an object of strings"},
		"a long number":        {new(Register), full(open+`"epoch":`, `1`, `}`), "epoch: want an integer"},
		"a long secret":        {new(Register), full(`{"secret":"`, `s`, `"}`), "clientId: required"},
		"unknown members":      {new(Register), full(open, `"":0,`, `,"x":0}`), "body: want at most 128 members"},
		"unknown list":         {new(Register), full(open+`"x":[`, `0,`, `]}`), ""},
		"acks":                 {new(Heartbeat), full(`{"sessionId":"s","headroom":1,"acks":[`, `"",`, `]}`), "acks: want at most 10000"},
		"releases":             {new(Releases), []byte(`[` + strings.Repeat(release+`,`, 100_000) + release + `]`), "body: want at most 100000 releases"},
		"empty releases":       {new(Releases), full(`[`, `{},`, `]`), "[0].namespace: required"},
		"no releases":          {new(Releases), full(`[`, `0,`, `]`), "[0]: want one JSON object"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := json.Unmarshal(c.body, c.into)
		runtime.ReadMemStats(&after)
		var field *FieldError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &field) || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > most(name) {
			t.Errorf("%s: %d KiB allocated in all for a body of %d", name, made>>10, len(c.body)>>10)
		}
	}
	// Distinct members: each could be kept, so their number is bounded.
	var b strings.Builder
	for i := range 1 << 17 {
		fmt.Fprintf(&b, `"m%d":0,`, i)
	}
	if err := json.Unmarshal([]byte(open+b.String()+`"x":0}`), new(Register)); err == nil || err.Error() != "body: want at most 128 members" {
		t.Errorf("members: %v", err)
	}
	if err := json.Unmarshal([]byte(open+`"instances":{`+strings.ReplaceAll(b.String(), ":0", ":[]")+`"x":[]}}`), new(Register)); err == nil || err.Error() != "instances: want at most 256 namespaces" {
		t.Errorf("namespaces of instances: %v", err)
	}
	if err := json.Unmarshal([]byte(open+`"envs":{`+strings.ReplaceAll(b.String(), ":0", `:""`)+`"x":""}}`), new(Register)); err == nil || err.Error() != "envs: want at most 256 namespaces" {
		t.Errorf("envs: %v", err)
	}
}

// What a store keeps of a registration is bounded as a whole, too, as it is
// encoded: "<" takes six bytes.
func TestARegistrationIsBounded(t *testing.T) {
	var namespaces, envs []string
	for i := range 200 {
		namespaces = append(namespaces, fmt.Sprintf(`"/%03d%s"`, i, strings.Repeat("n", 150)))
		envs = append(envs, fmt.Sprintf(`"/%03d":"%s"`, i, strings.Repeat("<", 25)))
	}
	with := func(n, e int) error {
		body := strings.Replace(register, `["/t"]`, "["+strings.Join(namespaces[:n], ",")+"]", 1) + `,"envs":{` + strings.Join(envs[:e], ",") + `}}`
		return json.Unmarshal([]byte(body), new(Register))
	}
	if err := with(200, 200); err != nil {
		t.Errorf("within the bound: %v", err)
	}
	for i := range envs {
		envs[i] = strings.Replace(envs[i], strings.Repeat("<", 25), strings.Repeat("<", 50), 1)
	}
	if err := with(200, 200); err == nil || err.Error() != "body: want at most 64 KiB besides instances" {
		t.Errorf("beyond it: %v", err)
	}
}

// The scan finds the same parts of a text as encoding/json.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		register + `}`, `{}`, `[]`, ` [ 1 , "a\"]" , {"x":[1,2,{}]} , null,true ] `, `{"a":{"b":"}"},"c" : [ "]", [] ] ,"a":-1e5}`, `"x"`, `0`, `{"\u0061":1,"\ud83d":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := map[string]string{}
		isObject := members(body, func(name, value []byte) bool {
			key, _ := text(name, 1<<20)
			got[key] = string(value)
			return true
		})
		var list []string
		isList := elements(body, func(value []byte) bool { list = append(list, string(value)); return true })
		if !json.Valid(body) {
			return // it only had to end
		}
		var object map[string]json.RawMessage
		err := json.Unmarshal(body, &object)
		if isObject != (err == nil && object != nil) || len(got) != len(object) {
			t.Fatalf("%q: object %v %q, want %v %q", body, isObject, got, err, object)
		}
		for k, v := range object {
			if got[k] != string(v) {
				t.Errorf("%q: %q is %q, want %q", body, k, got[k], v)
			}
		}
		var items []json.RawMessage
		err = json.Unmarshal(body, &items)
		if isList != (err == nil && items != nil) || len(list) != len(items) {
			t.Fatalf("%q: list %v %q, want %v %q", body, isList, list, err, items)
		}
		for i, v := range items {
			if list[i] != string(v) {
				t.Errorf("%q: element %d is %q, want %q", body, i, list[i], v)
			}
		}
	})
}
