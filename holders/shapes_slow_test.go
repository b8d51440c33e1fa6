//go:build slow

package holders

const allShapes = true
