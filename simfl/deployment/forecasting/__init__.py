"""Forecasts: what a deployment's log says about the exposures to come, under its policy and under others."""
