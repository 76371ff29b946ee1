// libjbig.so.0 as packages have it. libtiff loads a library of that name for JBIG, a compression of
// faxes. JBIG-KIT, which it is elsewhere, is under the GNU GPL, and programs that load it must not
// be passed on with libraries that are not free. This one says that JBIG is not read. The names are
// those of JBIG-KIT 2.1.
#include <cstddef>

extern "C" {

void jbg_dec_init(void*) {}
void jbg_dec_free(void*) {}
int jbg_newlen(unsigned char*, std::size_t) {
  return 0;
}
int jbg_dec_in(void*, unsigned char*, std::size_t, std::size_t*) {
  return 7 << 4;  // JBG_EIMPL, the error after which libtiff asks for its text alone
}
const char* jbg_strerror(int) {
  return "JBIG is not read by this package";
}
unsigned long jbg_dec_getsize(const void*) {
  return 0;
}
unsigned char* jbg_dec_getimage(const void*, int) {
  return nullptr;
}
void jbg_enc_init(void*, unsigned long, unsigned long, int, unsigned char**, void*, void*) {}
void jbg_enc_out(void*) {}
void jbg_enc_free(void*) {}
}
