package ratelimit

var SetHeaders = setHeaders
