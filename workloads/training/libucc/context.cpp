#include "context.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

namespace crossvendor {

namespace {

std::atomic<int64_t> num_made{0};   // contexts of this process so far, as UCC counts them
std::atomic<int64_t> num_alive{0};  // 0 or 1
std::atomic<int64_t> wanted{0};     // the number that the next one shall have

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
  bool is_wanted = false;
  do {
    is_wanted = num_made >= wanted;
    status = ucc_context_create(library_, &params, config, &context_);
    if (status != UCC_OK) break;
    ++num_made;
    if (!is_wanted) ucc_context_destroy(context_);
  } while (!is_wanted);
  ucc_context_config_release(config);
  if (status != UCC_OK) {
    ucc_finalize(library_);
    check(status, "making a UCC context");
  }
  ++num_alive;
}

void Context::stand_apart(
    int rank, const std::function<std::string(const std::string& mine)>& allgather) {
  bool is_final = num_alive > 0;
  Identity mine = {getpid(), is_final ? num_made - 1 : num_made.load(), is_final};
  std::string all = allgather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine));
  std::vector<Identity> identities(all.size() / sizeof(Identity));
  std::memcpy(identities.data(), all.data(), identities.size() * sizeof(Identity));
  wanted = distinct_context(identities, rank);
}

int64_t distinct_context(const std::vector<Identity>& identities, int rank) {
  std::set<std::pair<int64_t, int64_t>> taken;
  for (const Identity& identity : identities) {
    if (identity.is_final) taken.emplace(identity.process, identity.context);
  }
  for (int other = 0;; ++other) {
    const Identity& identity = identities.at(other);
    int64_t context = identity.context;
    if (!identity.is_final) {
      while (!taken.emplace(identity.process, context).second) ++context;
    }
    if (other == rank) return context;
  }
}

Context::~Context() {
  --num_alive;
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
