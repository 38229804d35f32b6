"""From jobs to a row: exchange, aggregation pipeline, global model, attacks and metrics."""
