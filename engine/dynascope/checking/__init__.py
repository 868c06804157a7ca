"""Whether compiled code is as right as eager's: every line's value and the gradients, beside a run in float64."""
