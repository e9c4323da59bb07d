package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// runReverseProxy is the peer a Go programmer writes first: the standard
// library's ReverseProxy, tuned by an idle pool and pooled copy buffers.
func runReverseProxy(listen, upstream string) error {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: upstream})
	proxy.Transport = &http.Transport{MaxIdleConns: 8192, MaxIdleConnsPerHost: 4096, DisableCompression: true}
	proxy.BufferPool = &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
	return http.ListenAndServe(listen, proxy)
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return b.pool.Get().(*[32 << 10]byte)[:] }
func (b *buffers) Put(p []byte) { b.pool.Put((*[32 << 10]byte)(p)) }
