"""A fleet of real processes with a trained backbone, whose second stage opens by itself."""
