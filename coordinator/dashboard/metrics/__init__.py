"""What Prometheus, load balancers and service managers ask of a dashboard."""
