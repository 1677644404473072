# Two commands do everything on a fresh machine:  make demo   make test
PYTHON ?= python3
RANKS  ?= 2
GPU    ?=
PAIRS  ?= 50000
PORT   ?=
BIN    := .venv/bin

.PHONY: demo ui test browser setup check bench lock help
.DEFAULT_GOAL := help

help:      ## this list
	@grep -E '^[a-z]+: .*##' Makefile | sed 's/:.*## /\t/' | expand -t 10

demo: setup        ## set up, then the whole experiment on the built-in corpus (RANKS=1: no Horovod needed)
	@$(BIN)/wmtflow run config/demo.yaml --set train.ranks=$(RANKS)

ui: setup          ## Prefect's dashboard, a worker and every deployment, until Ctrl-C (PORT=4200)
	@exec $(BIN)/wmtflow ui $(if $(PORT),--port $(PORT))

test: setup browser ## set up, then every test
	@$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder # see tests/conftest.py

browser:   ## the Chromium that the tests of the dashboard look through, where it can be installed
	@scripts/browser.sh

setup:     ## .venv with the locked packages and Horovod (GPU=1: with CUDA and NCCL)
	@$(PYTHON) scripts/setup.py $(if $(GPU),--gpu) $(if $(filter 1,$(RANKS)),--no-horovod)

check: setup       ## ruff, mypy and the layers
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

bench: setup       ## corpus preparation beside the usual tools (PAIRS=50000)
	@$(BIN)/python bench/prepare.py --pairs $(PAIRS)

lock:      ## resolve the dependencies of pyproject.toml again (needs uv)
	@for kind in cpu gpu; do uv pip compile pyproject.toml --extra $$kind --extra dev --extra build --extra dask \
	  --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
	  --output-file requirements$$(test $$kind = gpu && echo -gpu).lock; done
