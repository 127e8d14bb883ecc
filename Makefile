PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check docs mutate validate clean

demo: $(BIN)/rlhfdoctor
	$(BIN)/rlhfdoctor diagnose fixtures/grpo_late
	$(MAKE) $(BIN)/.recompute
	$(BIN)/rlhfdoctor recompute fixtures/grpo_late --reference fixtures/base

test: $(BIN)/pytest
	$(MAKE) check

check:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

docs: $(BIN)/rlhfdoctor
	$(BIN)/rlhfdoctor explain --format markdown > docs/rules.md

mutate: $(BIN)/pytest
	$(BIN)/python bench/mutate.py $(RULES)

validate: $(BIN)/rlhfdoctor
	@test -n "$(LOGS)" || { echo 'say where the logs are: make validate LOGS=dir LABELS=file'; exit 2; }
	mkdir -p docs
	$(BIN)/python bench/validate.py "$(LOGS)" $(if $(LABELS),--labels "$(LABELS)") \
	  $(if $(RIVAL_ENV),--rival-env "$(RIVAL_ENV)") > docs/validation.md.new
	mv docs/validation.md.new docs/validation.md

clean:
	rm -rf .venv

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "rlhfdoctor needs Python 3.10 or newer; say which with make PYTHON=...")'
	$(PYTHON) -m venv .venv

$(BIN)/rlhfdoctor: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(BIN)/.recompute: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[recompute]'
	touch $@ $(BIN)/rlhfdoctor

$(BIN)/pytest: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,recompute]'
	touch $@ $(BIN)/.recompute $(BIN)/rlhfdoctor
