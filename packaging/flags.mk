# An overrun ends the program, and fewer of its addresses are known beforehand (SECURITY.md).  The sanitizers find more,
# and fortified functions hide calls from them.  Only ELF linkers know the options.
ifeq ($(SANITIZE),)
ifeq ($(origin HARDEN),undefined)
# _FORTIFY_SOURCE warns without optimization.  The level of the compiler or of the flags stays, since distributions set one;
# else it is the highest that the compiler knows.
LEVELS    := '\#ifdef _FORTIFY_SOURCE' kept '\#elif defined __has_builtin' \
             '\#if __has_builtin(__builtin_dynamic_object_size)' 3 '\#endif' '\#endif'
FORTIFIED := $(strip $(shell printf '%s\n' $(LEVELS) | $(CC) $(CPPFLAGS) $(CFLAGS) -E -P -x c - 2>/dev/null))
FORTIFY   := $(if $(filter-out -O0,$(filter -O%,$(CFLAGS))),$(if $(filter kept,$(FORTIFIED)),,-D_FORTIFY_SOURCE=$(or $(FORTIFIED),2)))
endif
HARDEN         ?= -fstack-protector-strong $(FORTIFY)
HARDEN_LDFLAGS := $(if $(HARDEN),-pie $(if $(filter Linux %BSD,$(shell uname -s)),-Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now))
endif

# The commit that a run records (packaging/commit.sh).  train/result.o is compiled again when it changes.
SOURCES := core quant optim layers datasets train infer cli tools qgrad.h Makefile packaging/flags.mk
$(BUILD)/commit: FORCE
	@mkdir -p $(@D)
	@sh packaging/commit.sh $(SOURCES) >$@.new && { cmp -s $@.new $@ && rm $@.new || mv $@.new $@; }
$(BUILD)/train/result.o: $(BUILD)/commit
$(BUILD)/train/result.o: override CPPFLAGS += -DQGRAD_COMMIT=\"$$(cat $(BUILD)/commit)\"
# $(call keep,TEXT): the text of the target, whose time changes with it alone.
keep = @mkdir -p $(@D); echo '$1' | cmp -s - $@ || echo '$1' >$@
# Flags that change no byte of an object, or only names of directories in it.
NO_BYTES := -I% -W% -ffile-prefix-map=% -fdebug-prefix-map=%
# The program falls back on the prefix where it cannot find out its own path (core/io/paths.h).
$(BUILD)/prefix: FORCE
	$(call keep,$(PREFIX))
$(BUILD)/core/io/paths.o: $(BUILD)/prefix
$(BUILD)/core/io/paths.o: override CPPFLAGS += -DQGRAD_PREFIX='"$(PREFIX)"'
# Flags that name a directory would make builds in another one differ.
$(BUILD)/cli/version.o: override CPPFLAGS += -DQGRAD_FLAGS='"$(strip $(filter-out $(NO_BYTES) -D_POSIX%,$(CFLAGS)))"'
