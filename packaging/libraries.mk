# Shared libraries export what public headers declare, which packaging/exports.sh looks up.  ABI is part of their sonames:
# increment it when a program that was linked with an older library would no longer work.
ABI    := 1
PUBLIC := qgrad.h $(shell sed -n 's/^.include "\(.*\)"$$/\1/p' qgrad.h) infer/infer.h
$(BUILD)/lib%.exports: $(BUILD)/lib%.a packaging/exports.sh $(PUBLIC)
	@sh packaging/exports.sh $< $(PUBLIC) >$@.new && mv $@.new $@

# The threads of libqgrad.so live as long as the process (core/kernels/parallel.c), so dlclose must not unmap their code.
$(BUILD)/libqgrad.so.$(VERSION): SHARED_LIBS := -Wl,-z,nodelete $(LIBS)
$(BUILD)/libqgrad_infer.so.$(VERSION): SHARED_LIBS := -lm
# Sanitizers leave symbols to the program.
$(BUILD)/lib%.so.$(VERSION): $(BUILD)/lib%.a $(BUILD)/lib%.exports
	$(call say,LINK)$(CC) $(CFLAGS) $(filter-out -pie,$(LDFLAGS)) -shared -Wl,-soname,lib$*.so.$(ABI) \
		-Wl,--version-script,$(BUILD)/lib$*.exports $(if $(SANITIZE),,-Wl,--no-undefined) -o $@ \
		-Wl,--whole-archive $< -Wl,--no-whole-archive $(SHARED_LIBS)
	@ln -sf $(@F) $(BUILD)/lib$*.so.$(ABI) && ln -sf $(@F) $(BUILD)/lib$*.so

# Several ranks (core/dist/ranks.h).  Only one file is compiled with MPI, from libopenmpi-dev or libmpich-dev.
.PHONY: mpi mpi-delay
mpi:   ## the program and the static library for several processes over MPI
	@pkg-config --exists mpi-c || { echo "make mpi needs MPI: apt-get install libopenmpi-dev openmpi-bin"; exit 1; }
	+@$(SUB) $(BUILD)/qgrad-mpi $(BUILD)/qgrad-bench-mpi $(BUILD)/libqgrad-mpi.a
mpi-delay: mpi   ## the same with links of any latency and bandwidth, which QGRAD_LINK says (tests/ranks.sh hosts)
	+@$(SUB) $(BUILD)/qgrad-mpi-delay $(BUILD)/qgrad-bench-mpi-delay

MPI_FLAGS = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags mpi-c)) -DQG_WITH_MPI $(if $(findstring delay,$@),-DQG_WITH_DELAY -include tests/support/delay.h)
define MPI_RULE
$(BUILD)/core/dist/ranks.$(1).o: core/dist/ranks.c Makefile packaging/flags.mk $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,CC)$$(CC) $$(CPPFLAGS) $$(MPI_FLAGS) $$(CFLAGS) -MMD -MP -c -o $$@ $$<
$(BUILD)/libqgrad-$(1).a: $(patsubst %/core/dist/ranks.o,%/core/dist/ranks.$(1).o,$(LIB_OBJ))
	$$(archive)
$(BUILD)/qgrad-$(1): $(BUILD)/cli/main.o
$(BUILD)/qgrad-bench-$(1): $(BUILD)/tools/bench/main.o $(BENCH_OBJ)
$(BUILD)/qgrad-$(1) $(BUILD)/qgrad-bench-$(1): $(BUILD)/cli/start.o $(CLI_OBJ) $(BUILD)/libqgrad-$(1).a
	$$(link) $$(LIBS) $$(shell pkg-config --libs mpi-c)
endef
$(foreach kind,mpi mpi-delay,$(eval $(call MPI_RULE,$(kind))))
