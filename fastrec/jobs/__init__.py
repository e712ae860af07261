"""The jobs: one module each, which plans, runs stages through an engine, and gives back what came of it."""
