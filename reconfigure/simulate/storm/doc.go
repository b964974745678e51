// Package storm has only tests. They run the controller, the planner and the operations together on a simulated
// cluster, kill workers at every point, and inject all faults that the simulation knows.
package storm
