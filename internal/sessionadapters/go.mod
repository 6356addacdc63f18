module github.com/redispatterns/redispatterns/internal/sessionadapters

go 1.26.0

require (
	github.com/alexedwards/scs/v2 v2.9.0
	github.com/gorilla/sessions v1.4.0
	github.com/redispatterns/redispatterns v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/gorilla/securecookie v1.1.2 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/redispatterns/redispatterns => ../..
