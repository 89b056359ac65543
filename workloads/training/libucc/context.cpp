#include "context.h"

#include <dlfcn.h>

#include <stdexcept>

namespace crossvendor {

namespace {

std::string file_of(const void* symbol) {
  Dl_info info;
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

// UCX comes in as a dependency of UCC's plug-in, so nothing here is linked against it.
void* ucx_symbol(const char* name) {
  void* library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* symbol = dlsym(library, name);
  dlclose(library);  // drops only the reference that dlopen took
  return symbol;
}

}  // namespace

void check(ucc_status_t status, const std::string& what) {
  if (status == UCC_OK) return;
  throw std::runtime_error("libucc: " + what + ": " + ucc_status_string(status) +
                           "; UCC_LOG_LEVEL=INFO shows more.");
}

Context::Context() {
  ucc_lib_config_h library_config;
  check(ucc_lib_config_read(nullptr, nullptr, &library_config), "reading UCC's configuration");
  ucc_lib_params_t library_params = {};
  library_params.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE;
  library_params.thread_mode = UCC_THREAD_SINGLE;
  ucc_status_t status = ucc_init(&library_params, library_config, &library_);
  ucc_lib_config_release(library_config);
  check(status, "initialising UCC");

  ucc_context_config_h config;
  check(ucc_context_config_read(library_, nullptr, &config), "reading UCC's context configuration");
  // By default UCC looks at the network only on every thousandth call while it has nothing in
  // flight; the progress thread paces itself, so every call shall count. Unknown to some releases.
  (void)ucc_context_config_modify(config, nullptr, "THROTTLE_PROGRESS", "0");
  ucc_context_params_t params = {};
  status = ucc_context_create(library_, &params, config, &context_);
  ucc_context_config_release(config);
  if (status != UCC_OK) {
    ucc_finalize(library_);
    check(status, "making a UCC context");
  }
}

Context::~Context() {
  if (is_abandoned_) return;
  ucc_context_destroy(context_);
  ucc_finalize(library_);
}

std::string ucc_version() { return ucc_get_version_string(); }

std::string ucx_version() {
  auto get = reinterpret_cast<const char* (*)()>(ucx_symbol("ucp_get_version_string"));
  return get == nullptr ? "" : get();
}

std::string ucc_path() { return file_of(reinterpret_cast<void*>(&ucc_get_version_string)); }

std::string ucx_path() { return file_of(ucx_symbol("ucp_get_version_string")); }

}  // namespace crossvendor
