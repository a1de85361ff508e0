#!/usr/bin/make -rsf
# make -j hands out tokens through the pipe of its jobserver, to a make below it too.
# needs: make
MAKEFLAGS += -j4
names := $(addprefix out-,$(shell seq 12))
all: $(names) below
	@cat $(names) | sort -n | tr '\n' ' '; echo; rm -f $(names)
out-%:
	@seq $* | tail -n 1 | cat >$@
below: ; @+$(MAKE) -rs -f $(firstword $(MAKEFILE_LIST)) leaves
leaves: leaf-1 leaf-2 leaf-3 leaf-4
leaf-%: ; @seq 1000 | tail -n 1 >/dev/null
.PHONY: all below leaves
