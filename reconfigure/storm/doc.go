// Package storm is nothing but tests: the controller, the planner and the operations together, on a simulated cluster, while
// workers are killed at every point of their way and all else goes wrong that can.
package storm
