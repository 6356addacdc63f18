//go:build !unix

package redistest

import "errors"

func (p *Process) pause() error { return errors.ErrUnsupported }

func (p *Process) resume() error { return errors.ErrUnsupported }
