"""The paper's experiments, each by one command, with the paper's claims beside what was measured."""
