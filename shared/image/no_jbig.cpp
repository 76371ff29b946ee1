// A replacement for packages' libjbig.so.0: it says that JBIG, a compression of faxes, is not
// supported. The library of this name elsewhere, JBIG-KIT, is under the GNU GPL, which is
// incompatible with non-free libraries. Of these functions libtiff uses, after the error, the text
// alone.
extern "C" {
int jbg_dec_in() {
  return 7 << 4;  // JBG_EIMPL
}
const char* jbg_strerror() {
  return "JBIG is not read by this package";
}
void jbg_dec_init() {}
void jbg_dec_free() {}
void jbg_newlen() {}
void jbg_dec_getsize() {}
void jbg_dec_getimage() {}
void jbg_enc_init() {}
void jbg_enc_out() {}
void jbg_enc_free() {}
}
