#ifndef QG_IM2COL_H
#define QG_IM2COL_H
#include <string.h>
static inline void qg__pad(int h,int w,int c,int ph,int pw,float v,const float*x,float*y){int H=h+2*ph,W=w+2*pw;for(int i=0;i<H*W*c;i++)y[i]=v;for(int r=0;r<h;r++)memcpy(y+((r+ph)*W+pw)*c,x+r*w*c,(size_t)(w*c)*4);}
#endif
